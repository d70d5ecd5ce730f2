"""Files that a node serves below `/app/`, from the directory that the setting `http_files` names.

Only files below that directory are served: no hidden ones, and no links that lead out of it. Pages may load what the
node serves and nothing from elsewhere; their scripts may open connections to WebSocket ports.
"""

from pathlib import Path
from typing import Final

from antecede.node.http.answers import Answer, refusal

#: Bytes of the largest file that is served. A connection holds it in memory.
FILE_BYTES_MAX: Final = 4 * 1024 * 1024

_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}
_POLICY: Final = (
    ("Content-Security-Policy", "default-src 'self'; connect-src 'self' ws: wss:; frame-ancestors 'none'"),
)


def read(directory: Path, name: str) -> Answer:
    """The file `name` of the directory; its `index.html` if there is no name."""
    missing = refusal(404, "path", f"/app/{name}", "there is no such file", "look into the directory of http_files")
    parts = (name or "index.html").split("/")
    if any(part.startswith(".") or not part or "\\" in part or "\0" in part for part in parts):
        return missing
    try:
        root = directory.resolve(strict=True)
        file = root.joinpath(*parts).resolve(strict=True)
        if not file.is_relative_to(root) or not file.is_file():
            return missing
        with file.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError:
        return missing
    if len(data) > FILE_BYTES_MAX:
        problem = f"is longer than {FILE_BYTES_MAX:,} bytes"
        return refusal(413, "path", f"/app/{name}", problem, "serve it by a web server")
    return Answer(200, data, _KINDS.get(file.suffix.lower(), "application/octet-stream"), _POLICY, keep=True)
