-- inbox_done: letters were handled. Acknowledged and deleted in one step, so that the length of the stream is what is left to do.
-- Replies: done letters
local inbox   = KEYS[1]             -- stream of letters
local group   = ARGV[1]
local entries = {unpack(ARGV, 2)}

redis.call('XACK', inbox, group, unpack(entries))
return {'done', redis.call('XDEL', inbox, unpack(entries))}
