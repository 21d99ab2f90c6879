-- inbox_post: add letters to an instance's inbox, unless it is full. Unread letters are never trimmed; an inbox that is
-- neither written nor read expires, because it may contain speech.
-- Replies: of each letter: sent | full (back-pressure: the sender waits or drops the letter)
local inbox      = KEYS[1]   -- stream of letters
local max_length = ARGV[1]
local max_bytes  = ARGV[2]   -- of memory, as Redis estimates it
local keep_ms    = ARGV[3]
local letters    = {unpack(ARGV, 4)}  -- of each letter: WORDS, kind, sender, uid, body

local WORDS = 4
local length = redis.call('XLEN', inbox)
local used = length > 0 and redis.call('MEMORY', 'USAGE', inbox) or 0
local replies, is_any_sent = {}, false
for first = 1, #letters, WORDS do
  local kind, sender, uid, body = unpack(letters, first, first + WORDS - 1)
  used = used + #body
  if length >= tonumber(max_length) or (length > 0 and used > tonumber(max_bytes)) then
    replies[#replies + 1] = 'full'
  else
    redis.call('XADD', inbox, '*', 'kind', kind, 'sender', sender, 'uid', uid, 'body', body)
    length, is_any_sent = length + 1, true
    replies[#replies + 1] = 'sent'
  end
end
if is_any_sent then redis.call('PEXPIRE', inbox, keep_ms) end
return replies
