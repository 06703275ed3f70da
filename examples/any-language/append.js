// Places an order and appends its event, in one transaction, from Node.
//
// Run with DATABASE_URL=postgres://user@host:port/database.
const { Client } = require("pg");

const APPEND = `
    select entry, event_id, repeated from postrider_append_outbox(
        type => $1, aggregate_type => $2, aggregate_id => $3, payload => $4, idempotency_key => $5)`;

// The order and its event are there together or not at all; a repeated request writes neither again.
async function placeOrder(client, orderId, total, requestId) {
  const payload = JSON.stringify({ order_id: orderId, total, note: 'naïve "quotes" and a \\ backslash' });
  await client.query("begin");
  try {
    const values = ["loopers.order.created.v1", "Order", String(orderId), payload, requestId];
    const { entry, event_id, repeated } = (await client.query(APPEND, values)).rows[0];
    if (!repeated) {
      await client.query("insert into orders (id, total) values ($1, $2)", [orderId, total]);
    }
    await client.query("commit");
    return { entry, event_id, repeated };
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

async function main() {
  const orderId = Number(process.argv[2]);
  const client = new Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  try {
    console.log(JSON.stringify(await placeOrder(client, orderId, 12, `request-${orderId}`)));
  } finally {
    await client.end();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
