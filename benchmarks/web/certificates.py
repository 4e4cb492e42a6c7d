"""The certificate of a server over TLS: an authority of our own, and one certificate it signed for all its names.

Two of them, since rustls takes no certificate that is its own authority. Elliptic keys: made at once, and what most of
the web has. openssl makes them; it is asked for at no other place.
"""

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

from benchmarks.web.spec import WebSpec

AUTHORITY = "ca.pem"
_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"


class CannotMake(RuntimeError):
    pass


class Certificates(NamedTuple):
    authority: Path
    """What a client must trust (SSL_CERT_FILE)."""
    certificate: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context


def of_web(folder: Path, spec: WebSpec) -> Certificates:
    return certificates(folder, *(f"IP:{spec.address(host)}" for host in range(spec.hosts)))


def certificates(folder: Path, *names: str) -> Certificates:
    """`names` as openssl says them: DNS:localhost, IP:127.0.0.1. The authority in `folder` stays: a server that comes
    back, with more names too, is no stranger to its clients."""
    made = Certificates(folder / AUTHORITY, folder / "server.pem", folder / "server.key")
    folder.mkdir(parents=True, exist_ok=True)
    if not made.authority.exists():
        _openssl(folder, f"req -x509 {_KEY} -days 30 -subj /CN=benchmarks.web -keyout ca.key -out {AUTHORITY}")
    (folder / "extensions").write_text(f"subjectAltName={','.join(names)}\nbasicConstraints=CA:FALSE\n")
    _openssl(folder, f"req {_KEY} -subj /CN=web -keyout server.key -out server.csr")
    signing = f"x509 -req -in server.csr -CA {AUTHORITY} -CAkey ca.key -CAcreateserial -days 30 -extfile extensions"
    _openssl(folder, f"{signing} -out server.pem")
    return made


def _openssl(folder: Path, arguments: str) -> None:
    try:
        subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True, cwd=folder)
    except FileNotFoundError:
        raise CannotMake("its certificate is made with openssl, which is not installed") from None
    except subprocess.CalledProcessError as error:
        raise CannotMake(f"openssl: {error.stderr.decode(errors='replace').strip()}") from None
