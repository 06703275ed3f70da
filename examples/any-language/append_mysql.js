// Places an order and appends its event, in one transaction, from Node on MySQL or MariaDB.
//
// Run with DATABASE_URL=mysql://user@host:port/database.
const mysql = require("mysql2/promise");

// The order and its event are there together or not at all; a repeated request writes neither again.
async function placeOrder(connection, orderId, total, requestId) {
  const event = {
    type: "loopers.order.created.v1",
    aggregate_type: "Order",
    aggregate_id: String(orderId),
    // As a text, which is kept as it is; an object is kept as the server writes it.
    payload: JSON.stringify({ order_id: orderId, total, note: 'naïve "quotes" and a \\ backslash' }),
    idempotency_key: requestId,
  };
  await connection.beginTransaction();
  try {
    const [[[{ entry, event_id, repeated }]]] = await connection.query("call postrider_append_outbox(?)", [
      JSON.stringify(event),
    ]);
    if (!repeated) {
      await connection.query("insert into orders (id, total) values (?, ?)", [orderId, total]);
    }
    await connection.commit();
    return { entry, event_id, repeated: Boolean(repeated) };
  } catch (error) {
    await connection.rollback();
    throw error;
  }
}

async function main() {
  const orderId = Number(process.argv[2]);
  const connection = await mysql.createConnection(process.env.DATABASE_URL);
  try {
    console.log(JSON.stringify(await placeOrder(connection, orderId, 12, `request-${orderId}`)));
  } finally {
    await connection.end();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
