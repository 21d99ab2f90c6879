"""Settings of what an instance serves: addresses, TLS, and the limits of connections and memory."""

from typing import Annotated

import msgspec
from msgspec import Meta

from lingua_scheduler.setting_sections.kinds import Bytes, Count, Percent, PeriodMs, Texts, WaitMs, doc

# An empty host would listen on every interface, which must not happen by accident.
_Host = Annotated[str, Meta(min_length=1, extra={"expected": "a host name or address"})]
_TrustDomain = Annotated[
    str, Meta(pattern=r"\A[a-z0-9._-]{1,255}\Z", extra={"expected": 'lower-case letters, digits, ".", "_" and "-"'})
]
# Loopback and private networks: our own peers, or the proxy in front of us.
_OWN_NETWORKS = (
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "fc00::/7",
    "fe80::/10",
)
# Part of key names and of owners, where spaces separate words.
_InstanceId = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_.-]{1,64}\Z",
        extra={"expected": 'up to 64 letters, digits, "_", "." and "-", or "auto"'},
    ),
]


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    host: Annotated[_Host, doc("Address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535), doc("Port to listen on; 0 = any free port")] = 5010
    internal_host: Annotated[_Host, doc("Address of the internal port; that of a private network, or loopback")] = (
        "127.0.0.1"
    )
    internal_port: Annotated[
        int,
        Meta(ge=0, le=65_535),
        doc(
            "A second port for health, metrics (without a key), the dashboard and the operations of operators, which "
            "are then no longer served at `server.port`; 0 = none"
        ),
    ] = 0
    tls_cert_file: Annotated[
        str,
        doc(
            "PEM file with the certificate and its chain. `server.port` then speaks TLS (1.2 or newer) and nothing "
            "else. Read again when it changes; empty = no TLS"
        ),
    ] = ""
    tls_key_file: Annotated[
        str, doc("PEM file with the private key of that certificate; not readable by other users")
    ] = ""
    tls_client_ca_file: Annotated[
        str,
        doc(
            "PEM file with the authorities whose client certificates are accepted from nodes; the certificates stay "
            "optional. Empty = none are asked for"
        ),
    ] = ""
    tls_client_domain: Annotated[
        _TrustDomain,
        doc("Trust domain in the certificates of nodes: spiffe://`DOMAIN`/`TENANT`/node/`NODE`; one per cluster"),
    ] = "lingua"
    client_cert_header: Annotated[
        bool,
        doc(
            "Accept certificates of nodes in the X-Forwarded-Client-Cert header of `server.trusted_proxies`, which "
            "verify them and remove the header from requests that have it already"
        ),
    ] = False
    workers: Annotated[int, Meta(ge=0, le=1024), doc("Worker processes that share the port; 0 = one per CPU core")] = 1
    instance_id: Annotated[
        _InstanceId, doc("Unique name of this instance; auto = made of host name, process id and random characters")
    ] = "auto"
    stop_timeout_ms: Annotated[WaitMs, doc("Time running jobs get to finish after SIGTERM")] = 15_000
    max_frame_bytes: Annotated[
        Bytes, doc("Maximum size of a WebSocket frame; a larger one is answered with an error")
    ] = 4_194_304
    max_body_bytes: Annotated[Bytes, doc("Maximum size of an HTTP request body; a larger one is answered with 413")] = (
        4_194_304
    )
    outbox_max_bytes: Annotated[
        Bytes, doc("Maximum bytes buffered for one socket; a peer that reads too slowly is disconnected")
    ] = 8_388_608
    outboxes_max_bytes: Annotated[
        Bytes,
        doc("Maximum bytes buffered for all sockets together; above it the socket with the most is disconnected"),
    ] = 268_435_456
    max_unfinished_bytes: Annotated[
        Bytes,
        doc(
            "Maximum bytes buffered of incomplete WebSocket messages, all sockets together; above it the socket "
            "with the most is disconnected. The same limit applies to incomplete HTTP bodies"
        ),
    ] = 134_217_728
    message_timeout_ms: Annotated[PeriodMs, doc("Maximum time from a message's first byte to its last")] = 120_000
    max_bad_frames_per_min: Annotated[Count, doc("Unreadable frames per socket and minute before it is closed")] = 120
    max_connection_cpu_percent: Annotated[
        Percent,
        doc(
            "Share of one CPU core that parsing one connection's input may use; above it the connection is read "
            "more slowly. The same share limits the registrations from one address, which are delayed"
        ),
    ] = 20
    max_shared_loop_percent: Annotated[
        Percent,
        doc(
            "Share of the event loop's time that all HTTP requests, and reading from rate-limited sockets, may use "
            "together; above it they are served in turn"
        ),
    ] = 50
    ping_interval_ms: Annotated[PeriodMs, doc("Interval of WebSocket pings, which detect dead connections")] = 20_000
    max_sessions: Annotated[Count, doc("Maximum open sessions; further ones are refused")] = 20_000
    max_audio_bytes: Annotated[
        Bytes,
        doc("Maximum audio waiting for translation, all sessions and HTTP callers together; callers get half of it"),
    ] = 536_870_912
    max_remembered_bytes: Annotated[
        Bytes,
        doc(
            "Maximum memory for outcomes kept for clients that may reconnect; above it the oldest outcomes lose "
            "their speech first, then are dropped"
        ),
    ] = 268_435_456
    max_nodes: Annotated[Count, doc("Maximum connected nodes; further ones are refused")] = 20_000
    allow_calls_to: Annotated[
        Texts,
        doc("Non-public addresses and networks that `callback_url` and `catalogue.url` may point to"),
    ] = ()
    max_registrations_per_s: Annotated[
        Count,
        doc(
            "Maximum node registrations per second; further ones are delayed, so that a mass reconnect does not "
            "overload the scheduler"
        ),
    ] = 500
    allowed_origins: Annotated[
        Texts,
        doc(
            "Origins of web pages that may connect (WebSocket) and call the HTTP operations for apps (CORS), such as "
            "`https://app.example`; `*` = all. The scheduler's own pages always may"
        ),
    ] = ()
    allowed_hosts: Annotated[
        Texts,
        doc(
            "Host names accepted in requests, such as `translate.example`. Empty = all, or only loopback names "
            "while listening on loopback"
        ),
    ] = ()
    trusted_proxies: Annotated[
        Texts, doc("Networks of trusted reverse proxies, such as `10.0.0.5/32`; their X-Forwarded-For header is used")
    ] = ()
    unmetered_addresses: Annotated[
        Texts,
        doc(
            "Networks that are exempt from all per-address limits, such as nodes, gateways and proxies that are "
            "not in `server.trusted_proxies`"
        ),
    ] = _OWN_NETWORKS
    max_sockets_per_address: Annotated[
        Count, doc("Maximum connections and HTTP nodes per address (IPv6: per /64); further ones get 429")
    ] = 200
    handshakes_per_address_s: Annotated[
        Count,
        doc(
            "New WebSockets and HTTP nodes per address and second, with bursts of five times as many; further "
            "ones get 429"
        ),
    ] = 20
    header_timeout_ms: Annotated[
        PeriodMs, doc("Maximum time until a new connection has sent its first request headers")
    ] = 10_000
    body_timeout_ms: Annotated[
        PeriodMs, doc("Maximum time for an HTTP body to arrive, or for a response to be read")
    ] = 30_000
    keepalive_ms: Annotated[PeriodMs, doc("Maximum idle time of an HTTP connection between two requests")] = 30_000
