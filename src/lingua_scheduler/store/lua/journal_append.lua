-- journal_append: append entries to a bounded stream, and remove those that are too old.
-- An entry that is appended twice, because the reply got lost, is told apart by its readers.
-- Replies: appended id (of the last entry)
local journal = KEYS[1]             -- stream
local most    = ARGV[1]             -- how many entries are kept, about
local keep_ms = ARGV[2]             -- how long they are kept
local entries = {unpack(ARGV, 3)}

local last
for _, entry in ipairs(entries) do last = redis.call('XADD', journal, 'MAXLEN', '~', most, '*', 'entry', entry) end
redis.call('XTRIM', journal, 'MINID', string.format('%.0f', string.match(last, '^%d+') - keep_ms))
redis.call('PEXPIRE', journal, keep_ms)
return {'appended', last}
