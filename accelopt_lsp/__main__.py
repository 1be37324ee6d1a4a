"""``python -m accelopt_lsp`` is the ``accelopt`` command."""

from accelopt_lsp.cli import main

main()
