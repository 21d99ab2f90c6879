-- inbox_bury: turn a letter that cannot be handled into a dead letter. Dead letters are bounded, oldest dropped first,
-- and expire. Without `keep_body` only the envelope is kept, because the body may contain speech.
-- Replies: buried entry | gone (already handled or buried)
-- include: letters
local inbox      = KEYS[1]   -- stream of letters
local dead       = KEYS[2]   -- stream of dead letters
local group      = ARGV[1]
local entry      = ARGV[2]
local reason     = ARGV[3]
local subject    = ARGV[4]   -- the job or session it is about, or empty
local keep_body  = ARGV[5]   -- 1 or 0
local deliveries = ARGV[6]
local max_dead   = ARGV[7]
local keep_ms    = ARGV[8]

local letter = redis.call('XRANGE', inbox, entry, entry)[1]
redis.call('XACK', inbox, group, entry)
if not letter then return {'gone'} end
local fields, body_bytes = first_words(letter[2]), 0
for i = 1, #fields, 2 do
  if fields[i] == 'body' then body_bytes = #fields[i + 1] end
  -- What is not ours may hold anything, under any name.
  local is_envelope = fields[i] == 'kind' or fields[i] == 'sender' or fields[i] == 'uid'
  if keep_body ~= '1' and not is_envelope then fields[i + 1] = '' end
end
for _, word in ipairs({'reason', reason, 'subject', subject, 'body_bytes', body_bytes, 'deliveries', deliveries}) do
  fields[#fields + 1] = word
end
local buried = redis.call('XADD', dead, 'MAXLEN', max_dead, '*', unpack(fields))
redis.call('XTRIM', dead, 'MINID', string.match(buried, '^%d+') - keep_ms)
redis.call('PEXPIRE', dead, keep_ms)
redis.call('XDEL', inbox, entry)
return {'buried', buried}
