from tests.kafka_broker import kafka_url

__all__ = ["kafka_url"]
