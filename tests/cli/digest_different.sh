. "$HERE/common.inc"
printf '0 0 4 %032d\n0 1 4 %032d\n0 2 2 %032d\n' 1 2 3 >a
printf '0 0 4 %032d\n0 1 4 %032d\n0 2 2 %032d\n' 1 9 3 >b
says millrace digest a b
says millrace digest a b --json
printf '0 0 4 %032d\n0 1 3 %032d\n' 1 2 >b
says millrace digest a b --json
head -n 2 a >b
says millrace digest a b
says millrace digest b a
says millrace digest b a --json
tail -n 2 a >b
says millrace digest a b
says millrace digest --common a b
