"""`pomp studio`: machines in the browser."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from pomp.cli.output import say
from pomp.core.errors import ConfigError
from pomp.core.extras import STUDIO, require


@dataclass(frozen=True, kw_only=True)
class Studio:
    """Watch machines think in the browser: a page served on this computer alone."""

    port: int = 8484
    """The port; 0: any that is free."""
    folder: Annotated[str | None, arg(name="run", metavar="FOLDER")] = None
    """A run's folder, or one with several in it, to look at as well."""
    no_browser: bool = False
    """Only print the address."""
    host: str = "127.0.0.1"
    """The address to listen on. Any other than this computer's own lets others in."""

    def run(self) -> int:
        """Serve until it is interrupted."""
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"--port must be from 0 to 65535, got {self.port}")
        root = None if self.folder is None else Path(self.folder)
        if root is not None and not root.is_dir():
            raise ConfigError(f"--run names a folder with runs, and '{root}' is none")
        require(STUDIO, "pomp studio")
        from pomp.studio.server import serve

        serve(root, self.host, self.port, opens_browser=not self.no_browser, say=say)
        return 0
