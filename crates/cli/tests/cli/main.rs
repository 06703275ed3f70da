//! End to end, through the real binary.

#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion, in its helpers too")]

mod adoption;
mod bad_input;
mod changed;
mod crash;
mod crash_kafka;
mod crash_server;
mod demo;
mod encoding;
mod kafka_check;
mod kafka_cluster;
mod kafka_commerce;
mod kafka_counted;
mod kafka_faults;
mod kafka_forms;
mod kafka_outage;
mod kafka_parked;
mod kafka_teams;
mod kafka_tls;
mod kafka_topics;
mod landing;
mod large;
mod marks;
mod mysql;
mod newcomer;
mod operator;
mod outage;
mod postgres;
mod remedies;
mod routes;
mod secrets;
mod shop;
mod status;
mod stop;
mod team;
mod two_relays;
mod views;
mod wait;
mod world;
mod zones;
