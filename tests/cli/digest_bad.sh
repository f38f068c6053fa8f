. "$HERE/common.inc"
: >empty
printf '0 0 4 %032d\n' 1 >a
printf '0 0 4 %032d\n0 1 4 123\n' 1 >bad
says millrace digest a nothing
says millrace digest a bad
says millrace digest a empty
says millrace digest empty empty
says millrace digest a
