"""What runs around the services: a local broker, images, dashboards."""
