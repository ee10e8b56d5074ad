"""The `all` view: every other view in a folder of its own.

Owns how paths of several views become one tree. It knows the views by their names and roots, not by
what they show.
"""
