"""Places an order and appends its event, in one transaction, from Python on MySQL or MariaDB.

Run with DATABASE_URL=mysql://user@host:port/database. Any driver will do: with mysqlclient, only the connection is spelled
differently.
"""
import json
import os
import sys
from urllib.parse import unquote, urlsplit

import pymysql


def connect(url):
    parts = urlsplit(url)
    return pymysql.connect(
        user=unquote(parts.username or "root"),
        password=unquote(parts.password) if parts.password else "",
        host=parts.hostname or "localhost",
        port=parts.port or 3306,
        database=parts.path.lstrip("/"),
        charset="utf8mb4",
    )


def place_order(connection, order_id, total, request_id):
    """The order and its event are there together or not at all; a repeated request writes neither again."""
    cursor = connection.cursor()
    event = {
        "type": "loopers.order.created.v1",
        "aggregate_type": "Order",
        "aggregate_id": str(order_id),
        # As a text, which is kept as it is; an object is kept as the server writes it.
        "payload": json.dumps({"order_id": order_id, "total": total, "note": "naïve \"quotes\" and a \\ backslash"}),
        "idempotency_key": request_id,
    }
    cursor.execute("call postrider_append_outbox(%s)", (json.dumps(event),))
    entry, event_id, repeated = cursor.fetchone()
    if not repeated:
        cursor.execute("insert into orders (id, total) values (%s, %s)", (order_id, total))
    connection.commit()
    return {"entry": entry, "event_id": event_id, "repeated": bool(repeated)}


if __name__ == "__main__":
    order_id = int(sys.argv[1])
    connection = connect(os.environ["DATABASE_URL"])
    try:
        print(json.dumps(place_order(connection, order_id, 12, f"request-{order_id}")))
    finally:
        connection.close()
