"""`vgpumgr top`: a table of rows, the state of the view, frames of text, and the terminal's screen and keyboard."""
