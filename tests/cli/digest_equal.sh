. "$HERE/common.inc"
printf '0 0 4 %032d\n0 1 4 %032d\n' 1 2 >a
cp a b
says millrace digest a b
says millrace digest a b --json
