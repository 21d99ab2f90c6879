-- inbox_post: put a letter into an instance's inbox, unless it is full. Unread letters are never trimmed away; only an
-- inbox that nobody posts to nor reads any more goes in the end, because there may be speech in it.
-- Replies: sent entry | full (the sender waits or does without)
local inbox      = KEYS[1]   -- stream of letters
local max_length = ARGV[1]
local max_bytes  = ARGV[2]   -- of memory, as Redis estimates it
local keep_ms    = ARGV[3]
local kind       = ARGV[4]
local sender     = ARGV[5]
local uid        = ARGV[6]
local body       = ARGV[7]

local length = redis.call('XLEN', inbox)
if length >= tonumber(max_length) then return {'full'} end
if length > 0 and redis.call('MEMORY', 'USAGE', inbox) + #body > tonumber(max_bytes) then return {'full'} end
local sent = redis.call('XADD', inbox, '*', 'kind', kind, 'sender', sender, 'uid', uid, 'body', body)
redis.call('PEXPIRE', inbox, keep_ms)
return {'sent', sent}
