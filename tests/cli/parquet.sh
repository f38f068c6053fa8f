# What is in a Parquet file, as text and as JSON; and what is none.
"$MILLRACE" parquet "$HERE/data/people.parquet"
"$MILLRACE" parquet --json "$HERE/data/people.parquet" | grep -E '"(name|loaded|rows)"'
head -c 300 "$HERE/data/people.parquet" >cut.parquet
"$MILLRACE" parquet cut.parquet || echo "exit $?"
