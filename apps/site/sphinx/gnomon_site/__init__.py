"""What Sphinx needs for the site of Gnomon: the staging of pages, and an extension."""
