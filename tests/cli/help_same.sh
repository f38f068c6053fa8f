# `help COMMAND` and `COMMAND --help` are the same page, for every command.
"$MILLRACE" help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' | while read -r name; do
    "$MILLRACE" help "$name" >a
    "$MILLRACE" "$name" -h >b
    cmp a b && [ -s a ] && echo "$name"
done
