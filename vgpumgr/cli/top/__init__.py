"""`vgpumgr top`: a table of rows, the state of its view, frames of text, and a terminal's screen and keyboard."""
