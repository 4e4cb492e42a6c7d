"""Topics, offsets and units of work behind one seam (`seams.py`), with one folder per engine."""
