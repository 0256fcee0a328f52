"""A stand-in for object storage: moto's S3 on 127.0.0.1, and a proxy that counts requests and makes faults."""
