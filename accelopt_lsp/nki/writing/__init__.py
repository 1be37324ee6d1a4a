"""Help with writing kernels, from the text before and around a place in it.

Half a line is the usual case here, and the answer is wanted within milliseconds: nothing is parsed.
Strings and comments are told apart, brackets are matched back to the start of the statement, and
names are looked up in the tables of :mod:`accelopt_lsp.nki.reference`.
"""
