. "$HERE/common.inc"
says millrace ops randomflip
says millrace ops nothing_like_it
