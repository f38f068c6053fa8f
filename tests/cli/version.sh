"$MILLRACE" --version | head -n 1
