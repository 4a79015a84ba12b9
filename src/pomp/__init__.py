"""Program machine policies: state machines whose modes are readable Karel programs.

The names below are the public door. They are loaded on first use, so `import pomp` is instant.
"""

from pomp.core.doors import open_door
from pomp.version import __version__ as __version__

__getattr__, __dir__, __all__ = open_door(__name__)
