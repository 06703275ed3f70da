//! librdkafka's own imitation of a Kafka, for what no real broker can be brought to say.

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaErrorCode, RDKafkaRespErr};

/// One broker that answers as it is told.
pub struct MockKafka(MockCluster<'static, DefaultProducerContext>);

/// What is asked of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To store messages.
    Produce,
    /// For a producer's number.
    InitProducerId,
}

impl MockKafka {
    /// With this topic in it.
    #[must_use]
    pub fn start(topic: &str, partitions: i32) -> Self {
        let mock = MockCluster::new(1).expect("a mock cluster");
        mock.create_topic(topic, partitions, 1).expect("a topic on a mock cluster");
        Self(mock)
    }

    /// Where it listens.
    #[must_use]
    pub fn brokers(&self) -> String {
        self.0.bootstrap_servers()
    }

    /// Answers the next requests with these errors, one after the other.
    pub fn refuse(&self, request: Request, errors: &[RDKafkaErrorCode]) {
        let error =
            |code: &RDKafkaErrorCode| RDKafkaRespErr::try_from(*code as i32).expect("a code of Kafka's");
        let errors: Vec<RDKafkaRespErr> = errors.iter().map(error).collect();
        let key = match request {
            Request::Produce => RDKafkaApiKey::Produce,
            Request::InitProducerId => RDKafkaApiKey::InitProducerId,
        };
        self.0.request_errors(key, &errors);
    }
}
