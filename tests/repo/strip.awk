# C without comments and without what is inside of string and character literals, line by line. With keep=1 the contents of "//"
# comments are kept as //, so that they can be found.
{
    out = ""
    n = length($0)
    for (i = 1; i <= n; i++) {
        c = substr($0, i, 1)
        two = substr($0, i, 2)
        if (state == "block") {
            if (two == "*/") { state = ""; i++ }
        } else if (state == "\"" || state == "'") {
            if (c == "\\") i++
            else if (c == state) { state = ""; out = out c }
        } else if (two == "/*") {
            state = "block"; i++; out = out " "
        } else if (two == "//") {
            if (keep) out = out "//"
            break
        } else {
            if (c == "\"" || c == "'") state = c
            out = out c
        }
    }
    if (state != "block" && substr($0, n, 1) != "\\") state = ""
    print out
}
