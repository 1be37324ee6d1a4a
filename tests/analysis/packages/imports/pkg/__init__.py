from .tiles import width as exported_width
