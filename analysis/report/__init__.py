"""From an export to one page that a teacher shows and a reviewer accepts.

build      the page's content in its order           tables     numbers as people read them, in rows
page       what a page is made of: paragraphs, tables, figures
html       as HTML: one file, no outside request     markdown   as text        write   the files
"""
