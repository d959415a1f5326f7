"""Where a client connects, and with what."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

#: The largest message that a client takes, in bytes: skills return up to 10 MiB, and artifacts come beside them.
MAX_MESSAGE = 64 * 1024 * 1024

# What only reads is retried by gRPC itself. Calls are not: only the gateway knows whether that is safe.
_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [
                {"service": "openskill.v1.SkillService", "method": method}
                for method in ("ListSkills", "GetSkill", "ExportTools", "PrepareCall", "ReadArtifact")
            ]
            + [{"service": "google.longrunning.Operations", "method": "GetOperation"}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


@dataclass(frozen=True)
class Target:
    """A gateway: `host:port`, `http://host:port` or `https://host:port`."""

    url: str
    #: An API key or another bearer token.
    token: str = field(default="", repr=False)
    #: A file with the certificates that sign the gateway's, in PEM. None: those of the system. Implies TLS.
    ca: str | Path | None = None
    #: Files with the client's certificate and key, in PEM.
    certificate: tuple[str | Path, str | Path] | None = None

    @property
    def address(self) -> str:
        return self.url.split("://", 1)[-1].rstrip("/")

    @property
    def uses_tls(self) -> bool:
        return self.url.startswith("https://") or self.ca is not None or self.certificate is not None

    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def open(self, kind: Any) -> Any:
        """A channel. `kind`: `grpc` or `grpc.aio`."""
        options = (
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.max_send_message_length", MAX_MESSAGE),
            ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
        )
        if not self.uses_tls:
            return kind.insecure_channel(self.address, options=options)
        return kind.secure_channel(self.address, self._credentials(), options=options)

    def _credentials(self) -> grpc.ChannelCredentials:
        certificate, key = (Path(it).read_bytes() for it in self.certificate) if self.certificate else (None, None)
        return grpc.ssl_channel_credentials(
            root_certificates=Path(self.ca).read_bytes() if self.ca else None,
            private_key=key,
            certificate_chain=certificate,
        )
