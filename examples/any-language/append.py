"""Places an order and appends its event, in one transaction, from Python.

Run with DATABASE_URL=postgres://user@host:port/database. Any driver will do: with psycopg, only the connection is spelled
differently.
"""
import json
import os
import sys
from urllib.parse import unquote, urlsplit

import pg8000.dbapi

APPEND = """
    select entry, event_id, repeated from postrider_append_outbox(
        type => %s, aggregate_type => %s, aggregate_id => %s, payload => %s, idempotency_key => %s)
"""


def connect(url):
    parts = urlsplit(url)
    return pg8000.dbapi.connect(
        user=unquote(parts.username or "postgres"),
        password=unquote(parts.password) if parts.password else None,
        host=parts.hostname or "localhost",
        port=parts.port or 5432,
        database=parts.path.lstrip("/"),
    )


def place_order(connection, order_id, total, request_id):
    """The order and its event are there together or not at all; a repeated request writes neither again."""
    cursor = connection.cursor()
    payload = json.dumps({"order_id": order_id, "total": total, "note": "naïve \"quotes\" and a \\ backslash"})
    cursor.execute(APPEND, ("loopers.order.created.v1", "Order", str(order_id), payload, request_id))
    entry, event_id, repeated = cursor.fetchone()
    if not repeated:
        cursor.execute("insert into orders (id, total) values (%s, %s)", (order_id, total))
    connection.commit()
    return {"entry": entry, "event_id": event_id, "repeated": repeated}


if __name__ == "__main__":
    order_id = int(sys.argv[1])
    connection = connect(os.environ["DATABASE_URL"])
    try:
        print(json.dumps(place_order(connection, order_id, 12, f"request-{order_id}")))
    finally:
        connection.close()
