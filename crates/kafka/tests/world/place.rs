//! A topic of a test's own, and a door of its own before the shared private broker.

use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use postrider_servers::{Door, KafkaListener, KafkaOptions, PrivateKafka, Topic, topic_name};

/// As many tests run at once.
const WAYS: usize = 4;

static KAFKA: LazyLock<Mutex<PrivateKafka>> = LazyLock::new(|| {
    let listener = |way: usize| KafkaListener { name: name(way), login: false, certificates: None };
    let listeners = (0..WAYS).map(listener).collect();
    Mutex::new(PrivateKafka::start_with(&KafkaOptions { listeners, ..KafkaOptions::default() }))
});
static FREE: (Mutex<Vec<usize>>, Condvar) = (Mutex::new(Vec::new()), Condvar::new());
static FILLED: LazyLock<()> = LazyLock::new(|| lock(&FREE.0).extend(0..WAYS));

/// A topic, and a way to it that nobody else takes.
pub(crate) struct Place {
    way: usize,
    pub(crate) brokers: String,
    pub(crate) name: String,
    topic: Mutex<Topic>,
}

impl Place {
    pub(crate) fn new(partitions: usize, config: &[(&str, &str)]) -> Self {
        LazyLock::force(&FILLED);
        let mut free = lock(&FREE.0);
        while free.is_empty() {
            free = FREE.1.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        let way = free.pop().expect("it was waited for");
        drop(free);
        let kafka = lock(&KAFKA);
        let (brokers, inside) = (kafka.brokers_at(&name(way)), kafka.inside());
        drop(kafka);
        let name = topic_name("place");
        let topic = Mutex::new(Topic::create_on(&inside, &name, partitions, config));
        Self { way, brokers, name, topic }
    }

    /// Everything in the topic, each partition in order.
    pub(crate) fn topic(&self) -> MutexGuard<'_, Topic> {
        lock(&self.topic)
    }

    /// Does something to the door.
    pub(crate) fn door<T>(&self, deed: impl FnOnce(&mut Door) -> T) -> T {
        deed(lock(&KAFKA).door_at(&name(self.way), 1))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door(|door| {
            door.open();
            door.cut();
            door.resume();
        });
        lock(&FREE.0).push(self.way);
        FREE.1.notify_one();
    }
}

fn name(way: usize) -> String {
    format!("way{way}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
