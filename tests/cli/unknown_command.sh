. "$HERE/common.inc"
says millrace rnu
says millrace frobnicate
says millrace help chek
says millrace "$(printf 'r\377\033[1m')"
