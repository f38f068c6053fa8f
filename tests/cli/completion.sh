. "$HERE/common.inc"
says millrace completion
says millrace completion fsh
millrace completion bash >c.bash && bash -n c.bash && echo "bash reads it"
cat >try.bash <<'END'
. ./c.bash
try() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _millrace
    echo "$*: ${COMPREPLY[*]}"
}
compopt() { :; }
try millrace ru
try millrace run --st
try millrace run --io ''
try millrace ops random_fl
try millrace completion ''
try millrace help comp
touch p1.json p2.json
try millrace check p
END
bash try.bash
millrace completion zsh | head -n 1
millrace completion fish | grep '__fish_seen_subcommand_from run. -l io '
