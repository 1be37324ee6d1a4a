"""``python -m accelopt_lsp`` is the ``accelopt`` command."""

import sys

# The working folder is the user's project: a file of theirs that happens to be called like a
# module of ours must not run here. (``accelopt run`` puts it back for the script that it runs.)
if not sys.flags.safe_path and sys.path:
    del sys.path[0]

from accelopt_lsp.cli import main

main()
