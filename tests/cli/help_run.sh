"$MILLRACE" run --help
