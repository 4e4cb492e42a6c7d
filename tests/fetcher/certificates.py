"""An authority of our own and a certificate it signed: rustls takes no certificate that is its own authority."""

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificates(NamedTuple):
    authority: Path
    """What a client must trust (SSL_CERT_FILE)."""
    certificate: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make(folder: Path, *subjects: str) -> Certificates:
    """`subjects` as openssl names them: DNS:localhost, IP:127.0.0.1."""
    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    (folder / "extensions").write_text(f"subjectAltName={','.join(subjects)}\nbasicConstraints=CA:FALSE\n")
    key = "-newkey rsa:2048 -nodes"
    _openssl(folder, f"req -x509 {key} -days 2 -subj /CN=tests -keyout ca.key -out ca.pem")
    _openssl(folder, f"req {key} -subj /CN=server -keyout server.key -out server.csr")
    _openssl(
        folder,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.pem",
    )
    return made


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True, cwd=folder)
