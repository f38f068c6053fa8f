. "$HERE/common.inc"
says millrace ops random_flip
says millrace ops files
