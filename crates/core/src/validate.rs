//! What an envelope must be before it is written (F5): every bound and form that could fail later is checked here.

use crate::cloudevents::{self, json};
use crate::{Envelope, Fault, Names, limits, name};

impl Envelope {
    /// Checks every attribute and the data, so that nothing is appended that could not be published.
    ///
    /// # Errors
    /// The first thing that is wrong, with its remedy; the data itself is never quoted.
    pub fn validate(&self, names: Names, payload_bytes_max: usize) -> Result<(), Fault> {
        self.validate_attributes(names)?;
        self.validate_size(payload_bytes_max)?;
        if self.is_json() && !self.data.is_empty() {
            json::check(&self.data).map_err(|problem| {
                self.fault(
                    format!(
                        "its payload is not JSON ({problem}) but its content type is {}",
                        self.content_type()
                    ),
                    "Correct the payload, or give it the content type that it has",
                )
            })?;
        }
        Ok(())
    }

    pub(crate) fn validate_attributes(&self, names: Names) -> Result<(), Fault> {
        self.validate_type(names)?;
        let other = limits::ATTRIBUTE_BYTES_MAX;
        self.validate_text("id", &self.id, other)?;
        self.validate_text("source", &self.source, other)?;
        self.validate_text("aggregate type", &self.aggregate_type, other)?;
        self.validate_text("aggregate id", &self.aggregate_id, limits::KEY_BYTES_MAX)?;
        if let Some(key) = &self.partition_key {
            self.validate_text("key", key, limits::KEY_BYTES_MAX)?;
        }
        if let Some(content_type) = &self.content_type {
            self.validate_text("content type", content_type, other)?;
        }
        if let Some(trace) = &self.trace {
            self.validate_text("traceparent", &trace.parent, other)?;
            trace.state.iter().try_for_each(|state| self.validate_text("tracestate", state, other))?;
        }
        self.validate_extensions()
    }

    pub(crate) fn validate_size(&self, payload_bytes_max: usize) -> Result<(), Fault> {
        let bytes = self.data.len();
        if bytes <= payload_bytes_max {
            return Ok(());
        }
        Err(self.fault(
            format!("its payload has {bytes} bytes, the limit is {payload_bytes_max}"),
            "Make it smaller (refer to large content instead of carrying it), or raise payload_bytes_max \
             and the broker's own limit",
        ))
    }

    fn validate_type(&self, names: Names) -> Result<(), Fault> {
        self.validate_text("type", &self.event_type, limits::TYPE_BYTES_MAX)?;
        match name::fault(&self.event_type) {
            Some(problem) if names == Names::Convention => Err(self.fault(
                problem,
                "Rename it, for example loopers.order.created.v1, or use a layout that takes free names",
            )),
            _ => Ok(()),
        }
    }

    fn validate_extensions(&self) -> Result<(), Fault> {
        let count = self.extensions.len();
        if count > limits::EXTENSIONS_MAX {
            return Err(self.fault(
                format!("it has {count} extension attributes, the limit is {}", limits::EXTENSIONS_MAX),
                "Move some of them into the payload",
            ));
        }
        for (name, value) in &self.extensions {
            cloudevents::check_extension(name).map_err(|malformed| {
                self.fault(
                    malformed.to_string(),
                    "Give it a short name of its own in lower-case letters and digits",
                )
            })?;
            if !value.is_empty() {
                self.validate_text(name, value, limits::ATTRIBUTE_BYTES_MAX)?;
            }
        }
        Ok(())
    }

    fn validate_text(&self, what: &str, value: &str, bytes_max: usize) -> Result<(), Fault> {
        let bytes = value.len();
        if bytes == 0 {
            return Err(self.fault(format!("its {what} is empty"), format!("Give it a {what}")));
        }
        if bytes > bytes_max {
            return Err(self.fault(
                format!("its {what} has {bytes} bytes, the limit is {bytes_max}"),
                "Shorten it; what is long belongs into the payload",
            ));
        }
        if value.chars().any(char::is_control) {
            return Err(self.fault(
                format!("its {what} contains a control character"),
                "Take it out: CloudEvents allows none in attributes, and databases and brokers refuse some",
            ));
        }
        Ok(())
    }

    fn fault(&self, problem: impl Into<String>, remedy: impl Into<String>) -> Fault {
        const SHOWN_CHARS_MAX: usize = 80;
        let shown: String = self.event_type.chars().take(SHOWN_CHARS_MAX).collect();
        Fault::new(format!("event {shown:?}"), problem, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Text;
    use crate::cloudevents::examples::order_created;

    const NO_LIMIT: usize = usize::MAX;

    fn refused(change: impl FnOnce(&mut Envelope)) -> String {
        let mut envelope = order_created();
        assert!(envelope.validate(Names::Convention, NO_LIMIT).is_ok());
        change(&mut envelope);
        let fault = envelope.validate(Names::Convention, NO_LIMIT).unwrap_err();
        assert!(!fault.remedy.is_empty(), "{fault}");
        fault.to_string()
    }

    /// B3: refused at the write when malformed, taken where names are free.
    #[test]
    fn a_name_off_the_convention_is_refused_unless_names_are_free() {
        let message = refused(|e| e.event_type = "OrderCreated".into());
        assert!(
            message.contains("\"OrderCreated\"") && message.contains("company.domain.action.v1"),
            "{message}"
        );
        let free = Envelope { event_type: "OrderCreated".into(), ..order_created() };
        assert!(free.validate(Names::Free, NO_LIMIT).is_ok());
    }

    /// F5: a payload that is not JSON where JSON is said names the place and does not quote the payload.
    #[test]
    fn a_payload_that_is_not_json_is_refused() {
        for bad in [&b"{\"secret\":"[..], b"secret", b"{} {}", b"\"\xff\"", b"\"\n\"", b"{'a':1}"] {
            let message = refused(|e| e.data = bad.to_vec().into());
            assert!(message.contains("not JSON") && !message.contains("secret"), "{message}");
        }
        let text =
            Envelope { content_type: Some("text/plain".into()), data: "secret".into(), ..order_created() };
        assert!(text.validate(Names::Convention, NO_LIMIT).is_ok());
    }

    /// F5: an event over the size limit.
    #[test]
    fn a_payload_over_the_limit_is_refused() {
        let envelope = Envelope { data: "\"1234567890\"".into(), ..order_created() };
        assert!(envelope.validate(Names::Convention, 12).is_ok());
        let fault = envelope.validate(Names::Convention, 11).unwrap_err();
        assert!(fault.to_string().contains("12 bytes, the limit is 11"), "{fault}");
    }

    #[test]
    fn attributes_have_limits_and_no_control_characters() {
        let long = |bytes: usize| Text::from("x".repeat(bytes));
        assert!(refused(|e| e.event_type = long(256)).contains("type has 256 bytes, the limit is 255"));
        assert!(refused(|e| e.aggregate_id = long(1_025)).contains("aggregate id has 1025 bytes"));
        assert!(refused(|e| e.partition_key = Some(long(1_025))).contains("key has 1025 bytes"));
        assert!(refused(|e| e.partition_key = Some(Text::new())).contains("key is empty"));
        assert!(refused(|e| e.aggregate_id = Text::new()).contains("aggregate id is empty"));
        assert!(refused(|e| e.id = "a\0b".into()).contains("id contains a control character"));
        assert!(refused(|e| e.source = "a\nb".into()).contains("source contains a control character"));
    }

    #[test]
    fn extension_attributes_are_named_as_cloudevents_wants_and_are_few() {
        for bad in ["", "Tenant", "tenant_id", "ténant", "id", "data", "traceparent", &"x".repeat(65)] {
            let message = refused(|e| _ = e.extensions.insert(bad.into(), "x".into()));
            assert!(message.contains("extension attribute"), "{message}");
        }
        let message =
            refused(|e| e.extensions = (0..65).map(|i| (format!("x{i}").into(), "".into())).collect());
        assert!(message.contains("65 extension attributes, the limit is 64"), "{message}");
    }
}
