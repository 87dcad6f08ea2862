"""Adapters of `ports/telemetry.py`: metrics for Prometheus, traces for OpenTelemetry collectors.

    opening       which of them this process has, from its options and environment
    metrics       numbers, and the HTTP server that they are scraped from
    traces        spans, sent with OTLP over HTTP

Their libraries are extras, and imported only by a process that uses them.
"""
