-- letter_replay: put a dead letter back into its inbox; if that instance is dead, another one adopts the inbox.
-- Replies: replayed entry | full | gone | bare (its body was not kept, so it cannot be handled)
-- include: letters
local inbox      = KEYS[1]   -- stream of letters
local dead       = KEYS[2]   -- stream of dead letters
local entry      = ARGV[1]
local max_length = ARGV[2]
local keep_ms    = ARGV[3]

local letter = redis.call('XRANGE', dead, entry, entry)[1]
if not letter then return {'gone'} end
if redis.call('XLEN', inbox) >= tonumber(max_length) then return {'full'} end
local added = {reason = true, subject = true, body_bytes = true, deliveries = true}
local words, fields = first_words(letter[2]), {}
for i = 1, #words, 2 do
  local name, value = words[i], words[i + 1]
  if name == 'body' and value == '' then return {'bare'} end
  if not added[name] then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end
local replayed = redis.call('XADD', inbox, '*', unpack(fields))
redis.call('PEXPIRE', inbox, keep_ms)
redis.call('XDEL', dead, entry)
return {'replayed', replayed}
