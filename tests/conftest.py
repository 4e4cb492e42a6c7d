from tests.kafka_broker import kafka_url
from tests.postgres_server import _own_server, _some_server, own_postgres_url, postgres_server, postgres_url

__all__ = ["_own_server", "_some_server", "kafka_url", "own_postgres_url", "postgres_server", "postgres_url"]
