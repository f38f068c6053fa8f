"$MILLRACE" --help
