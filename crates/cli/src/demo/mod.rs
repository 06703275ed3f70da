mod latency;
mod paint;
mod proof;
mod tally;
mod view;
