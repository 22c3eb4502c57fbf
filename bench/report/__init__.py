"""Tables, figures and one page from recorded runs."""
