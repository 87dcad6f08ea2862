"""Adapters of `ports/telemetry.py`: metrics for Prometheus, traces for OpenTelemetry collectors.

    opening       which of them this process has, from its options and environment
    metrics       metrics, and the HTTP server from which they are scraped
    traces        spans, sent with OTLP over HTTP

Their libraries are extras, and imported only by a process that uses them.
"""
