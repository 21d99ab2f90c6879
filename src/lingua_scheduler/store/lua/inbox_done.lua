-- inbox_done: acknowledge and delete handled letters in one step, so that the stream's length is the remaining work.
-- Replies: done letters
local inbox   = KEYS[1]             -- stream of letters
local group   = ARGV[1]
local entries = {unpack(ARGV, 2)}

redis.call('XACK', inbox, group, unpack(entries))
return {'done', redis.call('XDEL', inbox, unpack(entries))}
