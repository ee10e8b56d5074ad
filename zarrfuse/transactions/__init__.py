"""How chunks and documents are stored so that each is wholly the old or wholly the new one.

A writer fills a private copy (`spooled`, `spool`); `commits` stores it. A chunk of several parts is
first written as temporary parts in the folder of our own (`workspace`), then named in a journal
(`journal`), then moved to its keys (`several`, `rolling`), or back (`undo`). What a process that died
has left is finished by `recovery`, and until then shown as if it were finished by `forward`. `locks`
keeps processes and threads that write or read the parts of one chunk out of each other's way (`ofd` is
the system call). None of them knows what a chunk or a part is: views say which bytes go under which key.
"""
